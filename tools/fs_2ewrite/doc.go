// Fs-write is the tool fs.write: it writes one whole file, all or nothing. Package tools/internal/filewrite does all of
// it, and says what it promises and what it does not.
package main
