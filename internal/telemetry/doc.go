// Package telemetry makes calls visible: one OpenTelemetry span per call, linked across the
// processes that it passes through.
//
// The dispatcher's span "admit" continues the trace that the request names; its context travels
// in the call log, and the executor's span "execute_tool" is its child, also where the tool could not be started. A
// request that was refused has a span "refuse" instead; one that is told the outcome of an attempt, or joins it, has
// none: that of the attempt is in the trace of whoever asked first. The cores know
// nothing of it: they tell whoever observes them, which is [Tracer.Trace].
package telemetry
