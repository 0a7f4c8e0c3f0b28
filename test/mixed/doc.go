// Package mixed runs builds of different ages on one bus: de639544, the oldest that may share one with this, and
// this one as it would be with one member more, or one form ahead. See docs/compatibility.md.
package mixed
