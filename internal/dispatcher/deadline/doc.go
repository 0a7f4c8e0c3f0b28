// Package deadline ends the attempts that no executor ends in time: at their deadlines, and earlier if their pool has
// no live executor, or none with the admitted build.
//
// Each dispatcher watches all open attempts, so that it can end those of a dispatcher that died. The state of an
// attempt belongs to the watch of its partition, behind its lock. The package writes only decisions. Start reading at
// deadline.go, then watch.go and absent.go.
package deadline
