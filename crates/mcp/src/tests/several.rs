mod hall;
mod hostile;
mod merging;
mod passing;
mod reads;
mod stateless;
