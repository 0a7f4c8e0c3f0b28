// Package doctor is `toolbus doctor`: it looks at a deployment from outside, as a client that may see everything, and
// says of each part whether it is well and, where it is not, what to do. [Diagnose] changes nothing, and what it could
// not find out is a finding, too. Start reading there, in doctor.go; inventory.go compares what dispatchers have
// loaded.
package doctor
