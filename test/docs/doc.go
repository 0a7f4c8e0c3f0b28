// Package docs holds the documentation to its word: links lead somewhere, commands and flags
// exist, numbers are those of the code, and the Go program of the README builds and runs.
package docs
