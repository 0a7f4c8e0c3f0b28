// Package observability makes the dashboards of deploy/observability, asks a real Prometheus for what they show and for
// what the rules of `toolbus gen alerts` need, and makes the faults of docs/runbook.md. It also reads what a real
// OpenTelemetry Collector takes.
package observability
