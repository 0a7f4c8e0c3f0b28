// Package tooltest is the conformance suite of adapters. An adapter passes when [Run] does:
//
//	func TestConformance(t *testing.T) {
//		tooltest.Run(t, func(t *testing.T) tooltest.Fixture { … })
//	}
//
// The fixture holds the adapter, and the manifest of a tool that behaves as [Behave] does over the transport of the
// adapter.
package tooltest
