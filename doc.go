// Package toolbus calls the tools of a bus: [Client] keeps the duties of an agent.
package toolbus
