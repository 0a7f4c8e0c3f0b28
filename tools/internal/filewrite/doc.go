// Package filewrite writes one whole file, all or nothing: the tool fs.write.
//
// # Where
//
// All paths are relative to one root folder, FS_WRITE_ROOT in the manifest's env, else "data" in
// the working directory. The root is opened once and nothing outside of it can be reached, not
// by "..", not by an absolute path and not by a symbolic link (os.Root). Missing folders are
// made, the root too. A path that names a symbolic link replaces the link and not its target.
//
// # How
//
// The content goes to a temporary file in the same folder, which is synced, renamed over the
// path and made durable by syncing the folder. A reader sees the old file or the new one, also
// after a crash. The temporary file is named by the idempotency key and the fence; each run
// removes what earlier runs of the same key left behind, so that a killed run leaves nothing for
// long and a stale run that still goes on cannot rename its file any more.
//
// # What an error says of the effect
//
// Up to the rename nothing is visible: none. A rename that fails with an I/O error may or may
// not have happened, and a rename whose folder could not be synced may not survive a power cut:
// unknown. Folders that were made for a write that failed are removed again.
//
// # Again
//
// The same call again writes the same bytes again, so that they are durable even if the first
// run never got to sync them. Its output differs in created only. A lookup confirms the call
// when the file holds exactly the content, whoever wrote it.
package filewrite
