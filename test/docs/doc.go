// Package docs holds the documentation to its word: links lead somewhere, commands and flags
// exist, numbers are those of the code, and the Go example compiles.
package docs
