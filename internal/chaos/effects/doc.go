// Package effects is the world that the calls of a chaos run act upon: one file, to which its
// tools append a line for every start and every effect, synced before they go on. It stands
// outside of Toolbus, so that what was done can be held against what Toolbus says was done.
//
// The tools are programs like any others ([Run] is the whole of them): what one does, how long
// it takes and how it fails is in its input.
package effects
