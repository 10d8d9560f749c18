mod hall;
mod hostile;
mod input;
mod merging;
mod passing;
mod reads;
mod stateless;
mod tasks;
