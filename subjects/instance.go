package subjects

// Instance names an executor of a pool.
func Instance(pool, name string) string { return pool + "/" + name }
