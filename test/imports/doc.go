// Package imports holds the architecture to its word: which package may import which, who may
// speak NATS, how packages may be called, which modules the whole may depend on, and what other modules may import.
package imports
