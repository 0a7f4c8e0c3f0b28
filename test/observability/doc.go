// Package observability makes the dashboards of deploy/observability, and asks a real Prometheus for what they show and
// for what the rules of `toolbus gen alerts` need. It also reads what a real OpenTelemetry Collector takes.
package observability
