// Package telemetry makes OpenTelemetry spans of calls, linked across the processes that handle a call. [Meter] counts
// outcomes, and [Log] logs them.
//
// The dispatcher's span "admit" continues the trace that the request names. Its context is stored in the call log. The
// executor's span "execute_tool" is its child, even if the tool could not be started. A refused request has a span
// "refuse" instead. A request that joins an attempt, or gets a stored outcome, has no span: the attempt belongs to the
// trace of the request that opened it. Packages dispatcher and executor do not import this package. They run the hooks
// of a [call.Trace], which [Tracer.Trace] makes.
package telemetry
