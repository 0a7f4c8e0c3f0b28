// Transcript-clean is the tool transcript.clean: it turns captions and transcripts into plain paragraphs. It has no
// model: the same text always gives the same result. What it promises and what it does not is said in package
// tools/internal/transcript, which does all of it.
package main
