// Package admin has the health checks of operators, `toolbus doctor`: it reads a deployment from outside, as a client
// that may see everything, and says of each part whether it is well and, where it is not, what to do.
//
// [Diagnose] changes nothing; a check that could not be made is a finding, too. Start reading there, in doctor.go;
// inventory.go compares the tools that dispatchers have loaded.
package admin
