// Package flood sends floods of messages and calls to a bus, as one actor.
package flood
