// Fs-write is the tool fs.write: it writes one whole file, all or nothing. What it promises and what it does not is
// said in package tools/internal/filewrite, which does all of it.
package main
