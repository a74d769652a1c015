"""Stand-in of the prompt encoder: user turns of text and pictures only."""

IMAGE_PLACEHOLDER = "<｜deepseek_image｜>"


def encode_messages(messages, thinking_mode, return_multi_modal_data=False, **options):
    prompt, images = "<｜begin▁of▁sentence｜>", []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = []
        for block in blocks:
            if block["type"] == "text":
                texts.append(block["text"])
            else:
                texts.append(IMAGE_PLACEHOLDER)
                images.append(block["image_url"]["url"])
        prompt += "<｜User｜>" + "\n\n".join(texts) + "<｜Assistant｜>"
    prompt += "</think>" if thinking_mode == "chat" else "<think>"
    return (prompt, {"images": images}) if return_multi_modal_data else prompt
