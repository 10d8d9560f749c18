//! Segments of a log: their names and lines. Each line has one canonical spelling.

mod line;
mod place;
mod scan;
mod side;
mod tail;

pub(crate) use line::{
    Head, MAX_LINE, checkpoint_line, is_checkpoint, is_object, parse_checkpoint, read_head, read_notes,
    time_of,
};
pub use place::Place;
pub(crate) use place::{list_segments, segment_name};
pub(crate) use scan::{Scan, ScanPosition, SegmentScanner, Times, read_range};
pub(crate) use side::{
    HEADER, LEAST, LEAST_BYTES, SidePlace, call_tag, completed_by, each_place, line_tag, node_offset,
    read_node, read_u64, side_calls, side_header, side_name, side_offset,
};
pub(crate) use tail::{MAX_TAIL, first_damage};
