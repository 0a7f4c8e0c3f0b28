// Package catalogue keeps what dispatchers describe to a client: tools, with their compiled schemas, and the time of
// the bus.
//
// A call finds the description of its tool in the [Catalogue], so it needs no round trip of its own. A description is
// used for 30 s. Dispatchers decide each call all the same, by what they know. Start reading at catalogue.go.
package catalogue
