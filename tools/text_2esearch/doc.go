// Text-search is the tool text.search: it finds the lines of files that match a pattern, as ripgrep does. What it
// promises and what it does not is said in package tools/internal/textsearch, which does all of it.
package main
