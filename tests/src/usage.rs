//! What a process and a folder use of the machine.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// Octets of all files below `folder` whose names `wanted` likes.
pub fn octets(folder: &Path, wanted: fn(&Path) -> bool) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sum += octets(&path, wanted)?;
        } else if wanted(&path) {
            sum += path.metadata()?.len();
        }
    }
    Ok(sum)
}

/// Time a process has spent on the processors, all threads, ended ones included.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let ticks = stat(pid, UTIME)? + stat(pid, STIME)?;
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

/// Where `/proc/<pid>/stat` has the time in user mode and in the kernel, clock ticks, counted from behind the name (proc_pid_stat(5)).
const UTIME: usize = 11;
const STIME: usize = 12;

fn stat(pid: u32, field: usize) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process has ended")?;
    // The name in parentheses may hold anything.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    Ok(fields.split_whitespace().nth(field).context("a short stat line")?.parse()?)
}

/// Resident memory of a process now, and at its highest, octets.
pub fn memory(pid: u32) -> Result<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the process has ended")?;
    let kilobytes = |name: &str| -> Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context("a short status")?;
        let number = line.split_whitespace().next().context("a short line")?;
        Ok(number.parse::<u64>()? * 1024)
    };
    Ok((kilobytes("VmRSS:")?, kilobytes("VmHWM:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_understood() {
        let us = std::process::id();
        assert!(cpu_time(us).is_ok());
        let (now, highest) = memory(us).unwrap();
        assert!(now > 0 && now <= highest);
    }
}
