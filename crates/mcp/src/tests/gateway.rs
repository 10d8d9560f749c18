mod approvals;
mod calls;
mod client_faults;
mod desk;
mod ends;
mod lists;
mod passing;
mod server_faults;
