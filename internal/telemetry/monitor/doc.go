// Package monitor serves the state of one process over HTTP: /healthz says that it runs, /readyz what it still waits
// for, and /metrics its numbers in the format of Prometheus (002 §Observability). /debug/pprof has profiles, with
// [Options.Profiles].
//
// /healthz and /readyz name no tool and need no token. Metrics and profiles name tools, which a policy may hide from
// agents: away from loopback they need the text of a token file. Start with [Open]. The numbers come from the
// instruments of a provider with [Server.Reader]; package telemetry makes those of calls.
package monitor
