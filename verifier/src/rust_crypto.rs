//! Native signature back end.
