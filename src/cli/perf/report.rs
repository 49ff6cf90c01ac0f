//! Measurements as a table.

use super::spec::{Measurement, Mode};

/// The heading above measurements of a mode.
pub fn heading(mode: Mode) -> &'static str {
    match mode {
        Mode::Latency => {
            "                        bytes   min us   p50 us   p99 us   max us      to TCP  to UDP   CPU client+server"
        }
        Mode::Bandwidth => {
            "                        bytes    Gbit/s      msg/s  arrived        to TCP          CPU client+server"
        }
    }
}

/// A measurement as a row.
pub fn row(measurement: &Measurement) -> String {
    let Measurement { spec, cpu_client, cpu_server, .. } = measurement;
    let name = format!("{:<4} {:<12}", spec.transport.to_string(), spec.operation.to_string());
    let ratio = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    let (tcp, udp) = (ratio(measurement.to_tcp), ratio(measurement.to_udp));
    let cpu = format!("{cpu_client:.2} + {cpu_server:.2}");
    let figures = if let Some(latency) = &measurement.latency_us {
        let times = [latency.min, latency.p50, latency.p99, latency.max].map(|time| format!("{time:>9.2}"));
        format!("{}   {tcp:>9} {udp:>7}   {cpu:>17}", times.concat())
    } else if let Some(rate) = &measurement.rate {
        let arrived = format!("{:.1}%", rate.delivered * 100.0);
        let (gbit, messages) = (rate.gbit_per_second, rate.messages_per_second);
        format!(" {gbit:>9.3} {messages:>10.0} {arrived:>8}     {tcp:>9}     {cpu:>22}")
    } else {
        String::new()
    };
    let again = match measurement.retransmitted {
        0 => String::new(),
        packets => format!("  ({packets} packets sent again)"),
    };
    format!("{name} {:>11}{figures}{again}", spec.size)
}
