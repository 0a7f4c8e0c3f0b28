// Package check decides whether a dispatcher may admit a request.
//
// [Stages.Check] runs the stages in the order of the gateway contract. The first stage that refuses the request
// ends the check. A request that passes becomes a [Call]: the question to the
// call log, and the request as the log stores it.
//
// The package reads no call log and sends no answers. A [Request] and a Call belong to the goroutine that handles them.
// [Stages] owns the memory and the hashes of large inputs, each behind its own lock. Start reading at check.go, then at
// the table in stages.go.
package check
