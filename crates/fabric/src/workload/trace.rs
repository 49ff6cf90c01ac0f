//! Flows from a text file.

use nic::Instant;

use crate::flow::FlowSpec;
use crate::rate::{QuantityError, parse_duration};
use crate::topology::{HostId, statements};

/// Why a trace cannot be read: where, and what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TraceError {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: TraceProblem,
}

/// What is wrong in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceProblem {
    /// Parts are missing, or are no numbers.
    #[error("expected source, destination, bytes and start, such as: 0 5 1000000 10us")]
    Malformed,
    /// No such host.
    #[error("host {0}: expected a number below {1}")]
    Host(u32, u32),
    /// From and to the same host.
    #[error("a flow from host {0} to itself")]
    SameHost(u32),
    /// The start.
    #[error(transparent)]
    Start(#[from] QuantityError),
    /// An option.
    #[error("\"{0}\": expected dscp= and a number below 64, or port= and a number below 65536")]
    Option(String),
}

/// Reads one flow a line: source, destination, bytes, start, and options (`dscp=`, `port=`); `#` starts a
/// comment.
pub fn parse_trace(text: &str, hosts: u32) -> Result<Vec<FlowSpec>, TraceError> {
    let flow = |(line, statement)| parse(statement, hosts).map_err(|problem| TraceError { line, problem });
    statements(text).map(flow).collect()
}

fn parse(statement: &str, hosts: u32) -> Result<FlowSpec, TraceProblem> {
    let mut words = statement.split_whitespace();
    let mut next = || words.next().ok_or(TraceProblem::Malformed);
    let source = host(next()?, hosts)?;
    let destination = host(next()?, hosts)?;
    if source == destination {
        return Err(TraceProblem::SameHost(source.0));
    }
    let bytes = next()?.parse().map_err(|_| TraceProblem::Malformed)?;
    let mut flow = FlowSpec::new(source, destination, bytes);
    flow.start = Instant::ZERO + parse_duration(next()?)?;
    for option in words {
        apply(option, &mut flow).ok_or_else(|| TraceProblem::Option(option.to_owned()))?;
    }
    Ok(flow)
}

fn host(word: &str, hosts: u32) -> Result<HostId, TraceProblem> {
    let number = word.parse().map_err(|_| TraceProblem::Malformed)?;
    if number < hosts { Ok(HostId(number)) } else { Err(TraceProblem::Host(number, hosts)) }
}

fn apply(option: &str, flow: &mut FlowSpec) -> Option<()> {
    match option.split_once('=')? {
        ("dscp", value) => flow.class.dscp = value.parse().ok().filter(|dscp| *dscp < 64)?,
        ("port", value) => flow.source_port = value.parse().ok()?,
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_line_by_line() {
        let flows = parse_trace("# two flows\n0 5 1000000 10us\n3 1 64 0ns dscp=0 port=50000\n", 6).unwrap();
        assert_eq!(
            (flows[0].source, flows[0].destination, flows[0].bytes),
            (HostId(0), HostId(5), 1_000_000)
        );
        assert_eq!(flows[0].start, Instant::from_nanos(10_000));
        assert_eq!((flows[1].class.dscp, flows[1].source_port), (0, 50_000));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_line() {
        for (text, message) in [
            ("0 1 5", "line 1: expected source, destination, bytes and start, such as: 0 5 1000000 10us"),
            ("\n0 6 5 1us", "line 2: host 6: expected a number below 6"),
            ("2 2 5 1us", "line 1: a flow from host 2 to itself"),
            ("0 1 5 soon", "line 1: \"soon\": expected a number and a unit, such as 1000ns"),
            (
                "0 1 5 1us dscp=64",
                "line 1: \"dscp=64\": expected dscp= and a number below 64, or port= and a number below 65536",
            ),
        ] {
            assert_eq!(parse_trace(text, 6).unwrap_err().to_string(), message);
        }
    }
}
