// Package docs holds the documentation to its word: links lead somewhere, commands and flags
// exist, numbers are those of the code, and the README does what it says: its programs
// build, and its commands print what it shows.
package docs
