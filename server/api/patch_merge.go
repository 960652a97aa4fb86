package api

// mergeObject changes a document as a JSON merge patch says: null takes a member away, an object is merged into an object,
// and all else takes the place of what was there. The document belongs to it, the patch is only read.
func mergeObject(document, patch map[string]any) {
	for key, value := range patch {
		if value == nil {
			delete(document, key)
			continue
		}
		inner, isObject := value.(map[string]any)
		if old, wasObject := document[key].(map[string]any); isObject && wasObject {
			mergeObject(old, inner)
			continue
		}
		document[key] = withoutNulls(value)
	}
}

// withoutNulls copies what comes in place of something else, where there is nothing left for a null to take away.
func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(value))
		for key, member := range value {
			if member != nil {
				kept[key] = withoutNulls(member)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(value))
		for i, element := range value {
			kept[i] = withoutNulls(element)
		}
		return kept
	}
	return value
}
