// Package docs holds the documentation to its word: links lead somewhere, commands and flags
// exist, numbers are those of the code, and the README and the pages of docs do what they say:
// their programs build, and their commands run and print what the pages show.
package docs
