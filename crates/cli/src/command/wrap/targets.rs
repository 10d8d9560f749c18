use std::path::{Path, PathBuf};

use countersign_clients::{ClientApp, ClientPlaces, ConfigScope, is_gateway_program};

use crate::failure::Failure;

/// A configuration of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The client's name; `client` for a file of an unknown one.
    pub(crate) client: String,
    pub(crate) path: PathBuf,
    pub(crate) scope: ConfigScope,
}

impl Target {
    /// The folder of the file.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or_else(|| Path::new("/"))
    }
}

/// Returns the configurations that exist: of the named client, the named file, or of all clients.
pub(crate) fn targets(named: Option<&str>) -> Result<Vec<Target>, Failure> {
    let apps = match named.map(str::parse::<ClientApp>) {
        Some(Ok(app)) => vec![app],
        None => ClientApp::ALL.to_vec(),
        Some(Err(())) => return Ok(vec![of_file(Path::new(named.unwrap_or_default()))?]),
    };
    let places = places()?;
    let files = apps.iter().flat_map(|app| {
        app.files(&places).into_iter().map(|(scope, path)| Target {
            client: app.name().to_owned(),
            path,
            scope,
        })
    });
    let mut found: Vec<Target> = Vec::new();
    for target in files.filter(|target| target.path.symlink_metadata().is_ok()) {
        // In the home folder the user's file is the project's too.
        if found.iter().all(|other| other.path != target.path) {
            found.push(target);
        }
    }
    if found.is_empty() {
        return Err(Failure::new(
            "CLIENT_FILE_MISSING",
            "no configuration of an MCP client was found: name its file",
        ));
    }
    Ok(found)
}

/// Path of this program: a client that was started from a desktop has another search path than a shell.
pub(super) fn program() -> Result<String, Failure> {
    let unknown = || Failure::new("PROGRAM_PATH", "the path of this program is unknown or not UTF-8");
    let program = std::env::current_exe().ok().and_then(|path| path.to_str().map(str::to_owned));
    let program = program.ok_or_else(unknown)?;
    if !is_gateway_program(&program) {
        return Err(Failure::new("PROGRAM_PATH", "this program's file name does not contain `countersign`"));
    }
    Ok(program)
}

fn of_file(path: &Path) -> Result<Target, Failure> {
    let whole = std::path::absolute(path);
    let whole = whole.map_err(|error| countersign_host::files::unreadable(path, &error))?;
    let client = ClientApp::of_file(&whole).map_or("client", ClientApp::name).to_owned();
    Ok(Target { client, path: whole, scope: ConfigScope::Project })
}

/// Returns the folders in which clients keep their files.
pub(crate) fn places() -> Result<ClientPlaces, Failure> {
    let unknown = || Failure::new("HOME_UNKNOWN", "the user's home folder is unknown: set HOME");
    let home = std::env::home_dir().filter(|home| home.is_absolute()).ok_or_else(unknown)?;
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = if cfg!(target_os = "macos") {
        home.join("Library/Application Support")
    } else if cfg!(windows) {
        absolute("APPDATA").unwrap_or_else(|| home.join("AppData/Roaming"))
    } else {
        absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"))
    };
    let project = std::env::current_dir().map_err(|_| unknown())?;
    let mut places = ClientPlaces::new(home, config, project);
    places.codex = absolute("CODEX_HOME");
    Ok(places)
}
