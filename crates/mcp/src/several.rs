//! Several servers behind one client: a gateway for each server, all of one session.
//!
//! Every server is behind a whole gateway of its own, so definitions, instructions, limits, handshake and era are its own, and a
//! server that is down, slow or floods does not hold up the others. This module decides nothing. It gives each line of the client
//! to the gateway of its server, or to all of them, and merges their answers.

mod client_lines;
mod group;
mod merged;
mod server_lines;
mod table;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use countersign_audit_log::EndReason;

use self::group::{GatewayInput, Group};
use self::server_lines::GatewayOutput;
use crate::error::{GatewayError, SettingsError};
use crate::gateway::{Gateway, GatewayEnd, GatewayStop};
use crate::line::LineReader;
use crate::notice::ContractNews;
use crate::output::PeerStream;

/// Gateways of one session, each in front of a server of its own, behind one client.
///
/// The client sees one server: its tools are the tools of all servers, each under its server's name
/// ([`GatewaySettings::among_several`](crate::GatewaySettings::among_several)), its instructions are theirs, one after another. A
/// server that does not answer in the time for lists is left out of the answer. If it answers the handshake later, the client gets
/// `notifications/tools/list_changed`. A server that ends fails its own calls.
#[derive(Default)]
pub struct Gateways {
    members: Vec<GroupMember>,
}

struct GroupMember {
    gateway: Gateway,
    server_in: PeerStream,
    server_out: Box<dyn Read + Send>,
}

impl std::fmt::Debug for Gateways {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.members.iter().map(|member| &member.gateway)).finish()
    }
}

impl Gateways {
    /// Creates an empty group.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the gateway of one more server, with the server's standard input and output. A server that could not be started has an
    /// output that ends at once. All gateways have clones of one gate.
    ///
    /// # Errors
    /// [`SettingsError::Several`] if the settings are not [`among_several`](crate::GatewaySettings::among_several), name a server of
    /// the group, allow further methods of the client, or have tools of the gateway's own; or if the gate is of another session.
    pub fn add(
        &mut self,
        gateway: Gateway,
        server_in: impl Write + Send + 'static,
        server_out: impl Read + Send + 'static,
    ) -> Result<(), SettingsError> {
        let (settings, session) = (gateway.settings(), gateway.gate().contract().session().clone());
        let same_server =
            |member: &GroupMember| member.gateway.settings().server().as_str() == settings.server().as_str();
        let unfit = if let Some(unfit) = settings.unfit_for_several() {
            Some(unfit)
        } else if self.members.iter().any(same_server) {
            Some("is of the same server as another")
        } else if self.members.iter().any(|it| *it.gateway.gate().contract().session() != session) {
            Some("is of another session")
        } else {
            None
        };
        if let Some(unfit) = unfit {
            return Err(SettingsError::Several(unfit));
        }
        self.members.push(GroupMember {
            gateway,
            server_in: PeerStream::new(server_in),
            server_out: Box::new(server_out),
        });
        Ok(())
    }

    /// Returns handles that end the gateways from outside, one for each.
    #[must_use]
    pub fn stop_handles(&self) -> Vec<GatewayStop> {
        self.members.iter().map(|member| member.gateway.stop_handle()).collect()
    }

    /// Relays messages until the client ends, or all servers have ended, and ends the session. See [`Gateway::run`].
    ///
    /// # Errors
    /// [`GatewayError`] if the operating system provides no threads or no random bytes, and [`GatewayError::Empty`] for a group
    /// without gateways.
    pub fn run(
        self,
        client_in: impl Read + Send + 'static,
        client_out: impl Write + Send + 'static,
    ) -> Result<GatewayEnd, GatewayError> {
        let stops = self.stop_handles();
        let mut members = self.members;
        if let Some(news) = members.first().map(|first| Arc::new(ContractNews::of(first.gateway.gate()))) {
            members.iter_mut().for_each(|member| member.gateway.share_news(&news));
        }
        let gateways: Vec<_> = members.iter().map(|member| &member.gateway).collect();
        let group = Arc::new(Group::of(&gateways).ok_or(GatewayError::Empty)?);
        let (mut running, mut failed) = (Vec::new(), None);
        for (at, (member, input)) in members.into_iter().zip(group.inputs()).enumerate() {
            match run_member(&group, at, member, input) {
                Ok(thread) => running.push(thread),
                Err(error) => failed = failed.or(Some(GatewayError::Thread(error))),
            }
        }
        let most = group.limits.max_bytes();
        let writer = start(&group, "client-out", move |group| {
            group.to_client.write_to(client_out);
            // Without this, gateways would wait for a client that has stopped reading.
            group.to_client.kill();
            group.close();
        });
        let reader =
            start(&group, "client-in", move |group| group.read_client(LineReader::new(client_in, most)));
        failed = failed.or(writer.and(reader).err().map(GatewayError::Thread));
        if failed.is_some() {
            stops.iter().for_each(|stop| stop.stop(Duration::ZERO));
            group.close();
        }
        group.watch(running.len());
        let mut ends = Vec::new();
        for thread in running {
            match thread.join() {
                Ok(Ok(end)) => ends.push(end),
                Ok(Err(error)) => failed = failed.or(Some(error)),
                Err(_) => {}
            }
        }
        group.close();
        group.to_client.close();
        group.to_client.wait_idle(group.drain);
        let end = [GatewayEnd::Stopped, GatewayEnd::ClientClosed].into_iter().find(|end| ends.contains(end));
        let end = end.unwrap_or(GatewayEnd::ServerEnded);
        // On failure the record has no end, and the sink reports the cause to the operator.
        let _ = group.gate.end_session(match (end, &failed) {
            (_, Some(_)) => EndReason::Error,
            (GatewayEnd::Stopped, None) => EndReason::Signal,
            (GatewayEnd::ClientClosed, None) => EndReason::Client,
            (GatewayEnd::ServerEnded, None) => EndReason::Server,
        });
        failed.filter(|_| ends.is_empty()).map_or(Ok(end), Err)
    }
}

fn start(
    group: &Arc<Group>,
    name: &str,
    work: impl FnOnce(&Group) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let group = Arc::clone(group);
    thread::Builder::new().name(format!("countersign-{name}")).spawn(move || work(&group))
}

/// Runs one gateway in a thread of its own.
fn run_member(
    group: &Arc<Group>,
    at: usize,
    member: GroupMember,
    input: GatewayInput,
) -> io::Result<JoinHandle<Result<GatewayEnd, GatewayError>>> {
    /// Notes the end, even if the gateway panics.
    struct Ends(Arc<Group>, usize);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.server_ended(self.1);
        }
    }
    let GroupMember { gateway, server_in, server_out } = member;
    let (output, ends) = (GatewayOutput::new(Arc::clone(group), at), Ends(Arc::clone(group), at));
    let thread = thread::Builder::new().name(format!("countersign-server-{at}"));
    thread.spawn(move || {
        let ended = gateway.run_lines(input, output, server_in, server_out);
        drop(ends);
        ended
    })
}
