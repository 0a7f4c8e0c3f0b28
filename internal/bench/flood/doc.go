// Package flood makes an actor that floods a bus with messages of all kinds.
package flood
