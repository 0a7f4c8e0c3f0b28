// Package program is the tool's side of the process protocol: it turns a Go function into a
// program that an executor can run.
//
// One process serves one call. The program reads one JSON object from stdin, the request, and
// writes one JSON object per line to stdout. Chunk, progress and log lines may come at any
// time; exactly one terminal line (output, error or absent) ends the call, and the exit code is
// then 0. Each line is written with one write and at most MaxLine bytes long.
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
// # Three ways to end
//
// A function that returns a nil error succeeded. One that returns an *Error failed in a way
// that its manifest declares; the error says what became of the effect. Any other error is a
// fault of the program or of the protocol: the program then writes no terminal line, explains
// itself on stderr and exits with 1, and the executor has to assume the worst.
//
// # Time
//
// The context of a function ends shortly before the deadline of the call, so that a tool can
// still say what happened, and when the process gets SIGTERM or SIGINT.
//
// Start reading at tool.go; protocol.go reads the request and writes the last line, stream.go the lines before it.
package program
