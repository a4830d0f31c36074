//! Reading of JavaScript values without panics.

use wasm_bindgen::JsValue;

/// A property, or `None` where it is absent, undefined or null.
pub fn property(object: &JsValue, name: &str) -> Option<JsValue> {
    js_sys::Reflect::get(object, &JsValue::from_str(name))
        .ok()
        .filter(|value| !value.is_undefined() && !value.is_null())
}

/// A text property.
pub fn text(object: &JsValue, name: &str) -> Option<String> {
    property(object, name)?.as_string()
}

/// An object of text properties.
pub fn object(entries: &[(&str, JsValue)]) -> JsValue {
    let object = js_sys::Object::new();
    for (name, value) in entries {
        // Setting a property of a fresh plain object cannot fail.
        let _ = js_sys::Reflect::set(&object, &JsValue::from_str(name), value);
    }
    object.into()
}

/// What a thrown value says, for our own logs only.
pub fn describe(error: &JsValue) -> String {
    text(error, "message").or_else(|| error.as_string()).unwrap_or_else(|| "unknown error".to_owned())
}
