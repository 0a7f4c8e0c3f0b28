// Package life makes one call with coverage, and compares the files that it runs with docs/life-of-a-call.md.
package life
