// Package tooltest is the conformance suite of adapters. An adapter passes when [Run] does:
//
//	func TestConformance(t *testing.T) {
//		tooltest.Run(t, func(t *testing.T) tooltest.Fixture { … })
//	}
//
// The fixture names the adapter and the manifest of a tool that does what [Behave] does, over
// whatever transport the adapter speaks.
package tooltest
