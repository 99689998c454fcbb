"""Progress bars, provenance, rendering and OpenTelemetry spans."""
