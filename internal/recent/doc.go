// Package recent remembers names that were met lately, and what was found out under them, within bounds.
package recent
