// Package telemetry makes OpenTelemetry spans of calls, linked across the processes that handle a call. [Meter] counts
// outcomes, and [Log] logs them.
//
// The dispatcher's span "admit" continues the trace that the request names. Its context is stored in the call log. The
// executor's span "execute_tool" is its child, even if the tool could not be started. A refused request has a span
// "refuse" instead. One that joins an attempt has a span "join", and one that gets a stored outcome a span "replay".
// Both are in the trace of that request, with a link to "admit" of the attempt. Packages dispatcher and executor do not
// import this package. They run the hooks of a [call.Trace], which [Tracer.Trace] makes.
package telemetry
