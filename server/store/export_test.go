package store

// NoSync leaves writes in the operating system's cache, for a test that must see losses.
func (b *Bolt) NoSync() { b.disk.db.NoSync = true }
