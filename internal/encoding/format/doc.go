// Package format numbers the format versions of what processes of Toolbus store or send to each other,
// so that builds of different versions share a bus without guessing (docs/compatibility.md).
//
// Each kind has its own number, which stands in the message itself. A build writes one format version of
// each kind and reads those listed here; any other it leaves alone, with an [Error]. Within one
// format version members may be added at any time: a reader keeps those that it does not know, and writes them on.
// Toolbus 0.1 wrote no number, or 1, and neither is read.
package format
