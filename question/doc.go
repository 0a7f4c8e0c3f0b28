// Package question holds what dispatchers are asked: a call as it comes in with its sender ([Incoming]), and the
// questions that their service "toolbus" answers (subjects tb.svc.*) with their answers. Both ends use these types, so
// that each is written down once. On the wire the questions and answers are JSON, with the number of their form (see
// docs/compatibility.md): members may be added, and none changes its meaning. Start reading at question.go; describe.go
// is what a client is told of tools.
package question
