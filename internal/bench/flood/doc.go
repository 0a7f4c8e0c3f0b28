// Package flood is an actor that floods a bus, with all kinds of messages.
package flood
