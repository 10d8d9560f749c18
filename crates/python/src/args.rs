//! Arguments of a call: Python values to JSON text, and the decided value back to Python.

use std::borrow::Cow;
use std::fmt::Write as _;

use countersign::canonical_json::{Kind, Limits, ValueRef, digest as json_digest};
use countersign::core::Recipe;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};

/// Deepest nesting that is walked. The gate's own limit is the same or lower.
const MAX_DEPTH: usize = 128;

/// Longest decimal text of a whole number: any other is outside of JSON's exact range.
const MAX_DIGITS: usize = 20;

/// Room for the text of most arguments, in bytes.
const FIRST_BYTES: usize = 256;

/// Returns the arguments as JSON text, or the reason why they are refused.
pub(crate) fn text_of<'py>(args: &'py Bound<'_, PyAny>) -> Result<Cow<'py, [u8]>, &'static str> {
    if let Ok(bytes) = args.cast_exact::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    if let Ok(text) = args.cast_exact::<PyString>() {
        return Ok(Cow::Borrowed(text.to_str().map_err(|_| "a lone surrogate")?.as_bytes()));
    }
    if let Ok(members) = args.cast_exact::<PyDict>() {
        let mut text = String::with_capacity(FIRST_BYTES);
        write_object(members, &mut text, 0)?;
        return Ok(Cow::Owned(text.into_bytes()));
    }
    Err("arguments are neither bytes, str nor dict")
}

fn write_object(members: &Bound<'_, PyDict>, out: &mut String, depth: usize) -> Result<(), &'static str> {
    if depth >= MAX_DEPTH {
        return Err("too deep");
    }
    out.push('{');
    let mut is_first = true;
    let expected = members.len();
    let mut seen = 0_usize;
    for (name, value) in members.clone() {
        if !std::mem::take(&mut is_first) {
            out.push(',');
        }
        let name = name.cast_into_exact::<PyString>().map_err(|_| "a member's name is not a str")?;
        write_string(&name, out)?;
        out.push(':');
        write_value(&value, out, depth)?;
        seen = seen.saturating_add(1);
    }
    out.push('}');
    if seen == expected { Ok(()) } else { Err("a dict changed while it was read") }
}

fn write_array(elements: &Bound<'_, PyList>, out: &mut String, depth: usize) -> Result<(), &'static str> {
    if depth >= MAX_DEPTH {
        return Err("too deep");
    }
    out.push('[');
    for (at, value) in elements.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_value(&value, out, depth)?;
    }
    out.push(']');
    Ok(())
}

fn write_value(value: &Bound<'_, PyAny>, out: &mut String, depth: usize) -> Result<(), &'static str> {
    let inner = depth.saturating_add(1);
    if let Ok(text) = value.cast_exact::<PyString>() {
        write_string(text, out)
    } else if value.is_none() {
        out.push_str("null");
        Ok(())
    } else if let Ok(truth) = value.cast_exact::<PyBool>() {
        out.push_str(if truth.is_true() { "true" } else { "false" });
        Ok(())
    } else if let Ok(number) = value.cast_exact::<PyInt>() {
        write_int(number, out)
    } else if let Ok(number) = value.cast_exact::<PyFloat>() {
        let number = number.value();
        if !number.is_finite() {
            return Err("a number that is not finite");
        }
        write!(out, "{number:?}").map_err(|_| "a number cannot be written")
    } else if let Ok(members) = value.cast_exact::<PyDict>() {
        write_object(members, out, inner)
    } else if let Ok(elements) = value.cast_exact::<PyList>() {
        write_array(elements, out, inner)
    } else {
        Err("a value is not exactly dict, list, str, int, float, bool or None")
    }
}

fn write_int(number: &Bound<'_, PyInt>, out: &mut String) -> Result<(), &'static str> {
    if let Ok(small) = number.extract::<i64>() {
        return write!(out, "{small}").map_err(|_| "a number cannot be written");
    }
    // A larger number may still be exact as a double.
    let text = number.str().map_err(|_| "a number is too large")?;
    let text = text.to_str().map_err(|_| "a number is too large")?;
    if text.len() > MAX_DIGITS {
        return Err("a number is too large");
    }
    out.push_str(text);
    Ok(())
}

fn write_string(text: &Bound<'_, PyString>, out: &mut String) -> Result<(), &'static str> {
    let text = text.to_str().map_err(|_| "a lone surrogate")?;
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        let (plain, tail) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(plain);
        let mut chars = tail.chars();
        match chars.next() {
            Some(c @ ('"' | '\\')) => {
                out.push('\\');
                out.push(c);
            }
            Some('\n') => out.push_str("\\n"),
            Some(c) => write!(out, "\\u{:04x}", u32::from(c)).map_err(|_| "a text cannot be written")?,
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
    Ok(())
}

/// Returns a fresh plain Python value. Whole numbers are `int`.
pub(crate) fn to_python<'py>(py: Python<'py>, value: ValueRef<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value.kind() {
        Kind::Object => members_of(py, value)?.into_any(),
        Kind::Array => {
            let list = PyList::empty(py);
            for element in value.elements() {
                list.append(to_python(py, element)?)?;
            }
            list.into_any()
        }
        Kind::String => PyString::new(py, value.as_str().unwrap_or_default()).into_any(),
        Kind::Number => match value.as_i64() {
            Some(whole) => whole.into_pyobject(py)?.into_any(),
            None => value.as_f64().into_pyobject(py)?.into_any(),
        },
        Kind::Bool => value.as_bool().into_pyobject(py)?.into_any(),
        Kind::Null | _ => py.None().into_bound(py),
    })
}

/// Returns the members of an object as a fresh dict.
pub(crate) fn members_of<'py>(py: Python<'py>, value: ValueRef<'_>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, member) in value.members() {
        dict.set_item(name, to_python(py, member)?)?;
    }
    Ok(dict)
}

/// Returns the SHA-256 of the canonical form of `args` (recipe `jcs-1`), in hexadecimal.
///
/// Raises `ValueError` for arguments that the gate refuses as malformed.
#[pyfunction]
pub(crate) fn digest(args: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = text_of(args).map_err(PyValueError::new_err)?;
    let digest = json_digest(&text, Recipe::Jcs1, &Limits::default());
    digest.map(|digest| digest.to_string()).map_err(|error| PyValueError::new_err(error.to_string()))
}
