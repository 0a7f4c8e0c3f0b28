// Package form numbers the forms of everything that processes of Toolbus store or send to each other,
// so that builds of different ages share a bus without guessing (docs/compatibility.md).
//
// Each kind of thing has its own number, which stands in the thing itself. A build writes one form of
// each and reads those listed here; whatever else it meets it leaves alone, with an [Error]. Within one
// form members may be added at any time: a reader keeps those that it does not know, and writes them on.
// What Toolbus 0.1 wrote carries no number, or 1, and is not read.
package form
