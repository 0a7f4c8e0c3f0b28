// Package scaffold writes new tools: a manifest, a program in one of several languages, and a test of the program. The
// files are in the folder templates, those of all languages on top. Tools that change something have programs of their
// own in its folder effect. docs/writing-tools.md shows the others.
//
// A tool is written as a whole or not at all, and never into a folder that exists. Start at scaffold.go.
package scaffold
