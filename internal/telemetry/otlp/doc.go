// Package otlp exports traces and metrics over OTLP/HTTP, and says how the commands keep histograms. It is separate
// from package telemetry because programs that import Toolbus bring their own exporter.
//
// It sends in the background: a collector that refuses or never answers delays no call. Spans that it does not take are
// lost and counted, and the next metrics have the same sums. The error handler of OpenTelemetry learns why.
package otlp
