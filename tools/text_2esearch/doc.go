// Text-search is the tool text.search: it finds the lines of files that match a pattern, as ripgrep does. Package
// tools/internal/textsearch does all of it, and says what it promises and what it does not.
package main
