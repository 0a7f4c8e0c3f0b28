// Package mixed runs builds of different ages on one bus: the first that wrote the current form of events, and
// this one as it would be with one member more, or one form ahead. See docs/compatibility.md.
package mixed
