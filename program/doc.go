// Package program implements the tool's side of the process protocol: it makes a program that an executor can run from
// Go functions.
//
// One process serves one call. The program reads one JSON object, the request, from stdin, and writes one JSON object
// per line to stdout. It may write chunk, progress and log lines at any time. Exactly one terminal line (output, error
// or absent) ends the call; the exit code is then 0. Each line is written with one write and has at most MaxLine bytes.
//
// A tool is a map of its functions:
//
//	func main() {
//		program.Main(program.Tool{
//			"greet": {Execute: program.Typed(greet)},
//		})
//	}
//
//	func greet(ctx context.Context, call *program.Call, in input, out *program.Stream) (program.Result, error) {
//		if in.Name == "nobody" {
//			return program.Result{}, &program.Error{
//				Code: "unknown_name", Message: "there is nobody of that name", Effect: program.EffectNone,
//			}
//		}
//		return program.Result{Output: output{Text: "hello " + in.Name}}, nil
//	}
//
// # Who calls
//
// A call holds only the members of the caller's context that the manifest lists in context, by default no member. The
// idempotency key of a call is derived from the caller's key. Pass Call.Traceparent on to services that the program
// calls, so that their spans are in the trace of the call.
//
// # Three ways to end
//
// A nil error means success. An *Error is a failure that the manifest declares, and states the effect of the call. Any
// other error is a fault of the program or of the protocol: the program then writes no terminal line, writes the error
// to stderr, and exits with 1. The error is the message of the outcome, so it must hold no secrets. The executor must
// then assume that the effect may have taken place. A call of a function, a lookup or a dry run that the program does
// not have ends with effect none and code C-CONTRACT-DIGEST.
//
// # Time
//
// The context of a function ends shortly before the deadline of the call, so that the function can still report what
// happened. It also ends when the process gets SIGTERM or SIGINT.
//
// Start reading at tool.go; protocol.go reads the request and writes the last line, stream.go the lines before it.
package program
